-- AlterEnum
ALTER TYPE "NotificationState" ADD VALUE 'expired';
